"""The routes of the service, a module a group of them."""
