"""The pytest plugin: options, the two arms of an experiment, and one verdict at the end.

A thin adapter. What a trial is, and what becomes of it, is in `holdback.trials`; here it only becomes a pytest item,
a report and an exit code. pytest finds hooks and fixtures by the names in this module, so here is all that it calls.
"""

from holdback.plugin.collecting import (
    pytest_collection_modifyitems,
    pytest_generate_tests,
    pytest_report_collectionfinish,
)
from holdback.plugin.ending import pytest_sessionfinish
from holdback.plugin.fixtures import (
    holdback_arm,
    holdback_binaries,
    holdback_dose,
    holdback_progress,
    holdback_provider,
    holdback_run,
    holdback_settings,
    pytest_holdback_faults,
    trial,
)
from holdback.plugin.leaving import pytest_sessionstart
from holdback.plugin.options import pytest_addoption
from holdback.plugin.running import (
    pytest_pyfunc_call,
    pytest_report_teststatus,
    pytest_runtest_makereport,
    pytest_runtest_setup,
)
from holdback.plugin.settings import (
    Settings,
    pytest_addhooks,
    pytest_configure,
    pytest_configure_node,
    pytest_report_header,
    pytest_unconfigure,
)
from holdback.plugin.terminal import pytest_terminal_summary

__all__ = [
    "Settings",
    "holdback_arm",
    "holdback_binaries",
    "holdback_dose",
    "holdback_progress",
    "holdback_provider",
    "holdback_run",
    "holdback_settings",
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_generate_tests",
    "pytest_holdback_faults",
    "pytest_pyfunc_call",
    "pytest_report_collectionfinish",
    "pytest_report_header",
    "pytest_report_teststatus",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_sessionfinish",
    "pytest_sessionstart",
    "pytest_terminal_summary",
    "pytest_unconfigure",
    "trial",
]
