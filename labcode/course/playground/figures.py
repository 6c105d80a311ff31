"""The figures behind the workloads, from the module that has them; in a page they are written out by `bundle`."""

from __future__ import annotations

from typing import Any

from labcode.workload import synthetic as known

FIGURES: dict[str, Any] = {
    "chat": ((known.PROMPT_MEAN, known.PROMPT_SIGMA), (known.OUTPUT_MEAN, known.OUTPUT_SIGMA)),
    "long_context": ((known.LONG_PROMPT_MEAN, known.PROMPT_SIGMA), (known.LONG_OUTPUT_MEAN, known.OUTPUT_SIGMA)),
    "azure_conv": (known.AZURE_CONV_PROMPT, known.AZURE_CONV_OUTPUT),
    "azure_code": (known.AZURE_CODE_PROMPT, known.AZURE_CODE_OUTPUT),
    "probabilities": known.AZURE_PROBABILITIES,
    "longest": known.LONGEST,
    "round_limits": known.ROUND_LIMITS,
}
