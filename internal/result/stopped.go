package result

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// Stopped records that a run ended before the last block of its plan because its
// results sufficed. The trials of later blocks are not missing: they were not
// needed.
type Stopped struct {
	Schema string    `json:"schema"`
	At     time.Time `json:"at"`
	Block  int       `json:"block"` // the last block that ran
	Why    string    `json:"why"`
	// Last: the end did not depend on the results, so the look after Block is the last of a sequential test.
	Last bool `json:"last,omitempty"`
}

// Stop records that the run ends after s.Block.
func (d *Dir) Stop(s Stopped) error {
	if d.lock == nil {
		return d.readOnly("stop")
	}
	if err := d.unseal(); err != nil {
		return err
	}
	s.Schema = Schema
	return writeJSON(d.file(StoppedFile), s)
}

// Stopped returns the reason for an early end, or nil if the run did not end early.
func (d *Dir) Stopped() (*Stopped, error) {
	var s Stopped
	if _, err := os.Stat(d.file(StoppedFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err := readJSON(d.file(StoppedFile), &s, Schema, func() string { return s.Schema }); err != nil {
		return nil, err
	}
	return &s, nil
}
