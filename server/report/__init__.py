"""What a run's results say: headline, overview, glossary, pages."""
