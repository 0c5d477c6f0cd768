"""One page about a scoring run: `collect` reads the run, `page` writes HTML from what it found."""
