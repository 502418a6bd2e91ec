"""Sliding-window aggregation: structures that fold a window without reading all of it.

===================  ============================  ===========================================
structure            events                        cost of one event
===================  ============================  ===========================================
`daba.DabaLite`      in order of time              constant, in the worst case
`fiba.Fiba`          out of order                  logarithm of the displacement, amortised
`shared.SharedWindows`  out of order, several windows  as `Fiba`, once for all windows
===================  ============================  ===========================================

Each takes any associative operator (`operators.Operator`) and holds one window per group, all in
one array of words. docs/aggregates.md compares them.
"""
