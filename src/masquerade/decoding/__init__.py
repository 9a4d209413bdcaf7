"""From scores to text: the decoding loop, its methods and constraints."""
