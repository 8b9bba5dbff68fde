"""The look: Gradio's theme variables point at the tokens of static/tokens.css, so light and dark are decided there."""

from __future__ import annotations

from typing import Any, Final

import gradio as gr

TITLE: Final = "OCR Portal"

# Stands in the page as it is served, so that the first thing painted has the right colours. Gradio puts what
# `mount_options` names into the page by script, after its own styles.
_EARLY_HEAD = """
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/tokens.css">
<link rel="stylesheet" href="/static/gradio.css">
<link rel="preload" href="/static/ui.css" as="style">
<link rel="preload" href="/static/input.css" as="style">
<link rel="preload" href="/static/history.css" as="style">
<link rel="preload" href="/static/usage.css" as="style">
<link rel="preload" href="/static/viewer.css" as="style">
<link rel="preload" href="/static/fields.css" as="style">
<script src="/static/theme.js"></script>
<script src="/static/ui.js"></script>
<script src="/static/input.js"></script>
<script src="/static/history.js" defer></script>
"""
_HEAD = """
<link rel="stylesheet" href="/static/ui.css">
<link rel="stylesheet" href="/static/input.css">
<link rel="stylesheet" href="/static/history.css">
<link rel="stylesheet" href="/static/usage.css">
<link rel="stylesheet" href="/static/viewer.css">
<link rel="stylesheet" href="/static/fields.css">
<link rel="stylesheet" href="/static/admin.css">
<link rel="stylesheet" href="/static/fleet.css">
<link rel="stylesheet" href="/static/print.css" media="print">
"""

_TOKENS = {
    "body_background_fill": "--canvas",
    "body_text_color": "--ink",
    "body_text_color_subdued": "--muted",
    "link_text_color": "--accent",
    "link_text_color_hover": "--accent-strong",
    "link_text_color_visited": "--accent",
    "link_text_color_active": "--accent",
    "background_fill_primary": "--surface",
    "background_fill_secondary": "--sunken",
    "border_color_primary": "--line",
    "border_color_accent": "--accent",
    "color_accent_soft": "--accent-soft",
    "block_background_fill": "--surface",
    "block_border_color": "--line",
    "block_label_background_fill": "--surface",
    "block_label_text_color": "--ink",
    "block_title_text_color": "--ink",
    "block_info_text_color": "--muted",
    "panel_background_fill": "--surface",
    "input_background_fill": "--field",
    "input_background_fill_focus": "--field",
    "input_border_color": "--line-field",
    "input_border_color_focus": "--accent",
    "input_placeholder_color": "--muted",
    "button_primary_background_fill": "--accent",
    "button_primary_background_fill_hover": "--accent-strong",
    "button_primary_text_color": "--on-accent",
    "button_primary_border_color": "--accent",
    "button_secondary_background_fill": "--surface",
    "button_secondary_background_fill_hover": "--sunken",
    "button_secondary_text_color": "--ink",
    "button_secondary_border_color": "--line-strong",
    "checkbox_background_color": "--field",
    "checkbox_background_color_selected": "--accent",
    "checkbox_border_color": "--line-field",
    "checkbox_border_color_selected": "--accent",
    "checkbox_label_background_fill": "--surface",
    "checkbox_label_background_fill_hover": "--sunken",
    "checkbox_label_background_fill_selected": "--accent-soft",
    "checkbox_label_text_color": "--ink",
    "checkbox_label_text_color_selected": "--ink",
    "checkbox_label_border_color": "--line-strong",
}
_ONE_FOR_BOTH = {
    "body_text_size": "15px",
    "block_border_width": "0px",
    "block_shadow": "none",
    "block_padding": "0px",
    "block_label_text_weight": "600",
    "block_title_text_weight": "600",
    "block_title_text_size": "14px",
    "input_border_width": "1px",
    "input_shadow": "none",
    "input_radius": "8px",
    "button_large_radius": "8px",
    "button_large_text_weight": "600",
    "button_border_width": "1px",
    "layout_gap": "16px",
    "form_gap_width": "16px",
}


def early_head(static_version: str) -> str:
    """HTML for the head of each page, before all else; the version as in `mount_options`."""
    return _versioned(_EARLY_HEAD, static_version)


def mount_options(static_version: str) -> dict[str, Any]:
    """Keyword arguments for `gr.mount_gradio_app` that make the pages ours and keep Gradio's extras off.

    `static_version` goes into the addresses of our own files, which browsers then keep.
    """
    return {
        "theme": _theme(),
        "head": _versioned(_HEAD, static_version),
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "enable_monitoring": False,
        "ssr_mode": False,
        "pwa": False,
        "mcp_server": False,
    }


def _versioned(head: str, static_version: str) -> str:
    return head.replace("/static/", f"/static/{static_version}/")


def _one_colour(soft: str, plain: str, strong: str) -> gr.themes.Color:
    """A scale for the variables that `_TOKENS` does not name, so that none keeps a colour of Gradio's."""
    light, middle, dark = (f"var({token})" for token in (soft, plain, strong))
    return gr.themes.Color(light, light, light, light, middle, middle, middle, dark, dark, dark, dark, "portal")


def _theme() -> gr.themes.Base:
    ours = _one_colour("--accent-soft", "--accent", "--accent-strong")
    theme = gr.themes.Base(
        primary_hue=ours,
        secondary_hue=ours,
        font=("ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"),
        font_mono=("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"),
    )
    variables = dict(_ONE_FOR_BOTH)
    for name, token in _TOKENS.items():
        variables[name] = variables[f"{name}_dark"] = f"var({token})"
    theme.set(**variables)
    return theme
