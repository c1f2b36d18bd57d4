"""`python -m zoo` and the `zoo` command are the same."""

from zoo.cli.main import main

if __name__ == "__main__":
    main()
