"""``python -m starter.cli``."""

import sys

from starter.cli import main

sys.exit(main())
