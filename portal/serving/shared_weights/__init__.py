"""One copy of a checkpoint's weights for several vLLM instances.

A loader builds the model once, fills a segment and ends; a thin store holds the segment and hands it to instances,
which map it read-only. This folder is installed into vLLM's environment by itself (as `ocr_shared_weights`), so it
imports the standard library, torch and vLLM alone, the latter two late.
"""
