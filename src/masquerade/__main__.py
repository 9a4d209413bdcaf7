"""`python -m masquerade`, the same as the command."""

from masquerade.cli.main import main

if __name__ == "__main__":
    main()
