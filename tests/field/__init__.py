"""The cases from the field, by number: see `docs/field.md`."""
