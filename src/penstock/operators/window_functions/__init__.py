"""Window functions over readings: ranks, LAG and LEAD in SELECT and QUALIFY.

The cycle finds the rows that WHERE leaves, or, where QUALIFY asks for the first ones of a partition, those. An answer reads their
columns from the log and looks at each partition in order.
"""
