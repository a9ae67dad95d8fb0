"""Binding: names get meaning, values get types, `*` gets columns. sqlglot's tree in, the same tree bound out.

`query.QueryBinder` walks SELECTs, `expressions.ExpressionBinder` what stands inside them. In a bound tree every
expression has its type (values.type_of), every column its source, and operands have equal types.
"""
