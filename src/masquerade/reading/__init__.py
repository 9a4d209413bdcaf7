"""Reading: answers from passages, in one parallel step."""
