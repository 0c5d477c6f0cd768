"""Why a pair scores what it scores: token by token, as data and page."""
