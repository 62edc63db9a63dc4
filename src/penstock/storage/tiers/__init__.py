"""Where old segments go: another folder, or an object store. `docs/format/cold.md` says what lies
there."""
