"""``python -m triegs`` is the command ``triegs``."""

from triegs.cli import main

if __name__ == "__main__":
    main()
