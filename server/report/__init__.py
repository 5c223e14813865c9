"""The report of a run: data, headline, overview, glossary and pages, and a module for each protocol."""
