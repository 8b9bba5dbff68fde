"""HOW a page is read: the Engine protocol, the embedded CPU engine and what turns boxes into readable text."""

import os

# onnxruntime (1.29 and later) sends usage events to its makers, with an identifier it keeps in the home folder, unless
# this is set before it is loaded (its Privacy.md). The portal tells nothing to anybody.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
