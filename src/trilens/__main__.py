"""`python -m trilens`, and so `torchrun -m trilens`: the same as the command."""

from trilens.cli.main import main

if __name__ == "__main__":
    main()
