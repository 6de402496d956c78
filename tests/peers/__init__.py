"""The bridge between peers that others wrote: both official clients on one side, published servers on the other."""
