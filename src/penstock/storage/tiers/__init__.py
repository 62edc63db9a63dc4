"""Storage for old segments: another folder, or an object store. `docs/format/cold.md` describes the
files."""
