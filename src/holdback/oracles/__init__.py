"""Pure judgements of histories."""

from holdback.oracles.judgement import Finding, Judgement, Oracle, judge, name_of
from holdback.oracles.rejections import no_endless_rejection

__all__ = ["Finding", "Judgement", "Oracle", "judge", "name_of", "no_endless_rejection"]
