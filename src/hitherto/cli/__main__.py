"""`python -m hitherto.cli`, which is also how torchrun starts the command."""

from hitherto.cli import main

if __name__ == "__main__":
    main()
