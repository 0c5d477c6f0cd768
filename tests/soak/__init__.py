"""Random faults at random moments over many resumes, and proof that nothing came of it.

python -m tests.soak --kills 200 --minutes 60 --seed 1
"""
