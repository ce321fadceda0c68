# Sphinx's settings; scripts/reference.sh sets the two variables.
import os
import sys

sys.path.insert(0, os.environ["BANTAM_PYTHON"])

project = "bantam"
extensions = ["breathe", "sphinx.ext.autodoc"]
breathe_projects = {"bantam": os.environ["BANTAM_XML"]}
breathe_default_project = "bantam"
autodoc_member_order = "bysource"
html_theme = "classic"
html_theme_options = {"nosidebar": False, "body_max_width": "60em"}
exclude_patterns = []
