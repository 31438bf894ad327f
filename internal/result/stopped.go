package result

import (
	"errors"
	"io/fs"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
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
	if d.held == nil {
		return d.readOnly("stop")
	}
	if err := d.unseal(); err != nil {
		return err
	}
	s.Schema = Schema
	return d.held.writeJSON(StoppedFile, s)
}

// Stopped returns the reason for an early end, or nil if the run did not end early. A file that the directory's
// list does not have is an error: it was added after the run, and would change its decisions.
func (d *Dir) Stopped() (*Stopped, error) {
	var s Stopped
	if _, err := regular.Lstat(d.file(StoppedFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err := readJSON(d.file(StoppedFile), &s, Schema, func() string { return s.Schema }); err != nil {
		return nil, err
	}
	of, err := d.Own()
	if of == nil || err != nil {
		return &s, err
	}
	got, err := Digest(d.path, StoppedFile)
	if err == nil && got.SHA256 != of.Sums[StoppedFile] {
		err = &Error{Op: "read", Path: d.file(StoppedFile), Hinted: hint.Hinted{Err: errors.New("it was added or changed after the run: it is not as " + of.Name + " lists it"), Text: "remove it, or restore the directory from a copy"}}
	}
	return &s, err
}
