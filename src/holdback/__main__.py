"""`python -m holdback` is `holdback`."""

import sys

from holdback.cli import main

sys.exit(main())
