"""Compare the runs of one program with those of another: did a change make it slower?"""
