package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/regular"
)

// recordSchema is the format of a [Record].
const recordSchema = "tare.cluster/v1"

// maxRecord bounds a record, in bytes.
const maxRecord = 64 << 10

// Record is kept of each cluster that tare creates, from before its creation to after its deletion. Without one, tare
// deletes nothing.
type Record struct {
	Schema   string    `json:"schema"`
	Provider string    `json:"provider"`
	Settings Settings  `json:"settings"`
	Created  time.Time `json:"created"`
	// Context is empty until the cluster is ready.
	Context string `json:"context,omitempty"`
	// UID is the UID of the namespace kube-system: another cluster of the same name has a different one.
	UID string `json:"uid,omitempty"`
}

func (r Record) String() string {
	return fmt.Sprintf("%s cluster %s, created by tare on %s", r.Provider, r.Settings.Name, r.Created.Local().Format("2006-01-02 15:04"))
}

// Records is the directory with the records of this user.
type Records string

const ownState = "remove it, or set XDG_STATE_HOME to a directory of your own"

// OpenRecords returns the directory below the user's state directory, $XDG_STATE_HOME or ~/.local/state.
func OpenRecords() (Records, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the state directory: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(base, "tare", "clusters")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the state directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("read the state directory: %w", err)
	}
	if !info.IsDir() {
		return "", hint.New(ownState, "%s is not a directory", dir)
	}
	if err := regular.Owned(dir); err != nil {
		return "", hint.Wrap(err, ownState)
	}
	return Records(dir), nil
}

// Save writes a record in one step.
func (r Records) Save(record Record) error {
	record.Schema = recordSchema
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("record the cluster: %w", err)
	}
	if err := outfile.WriteFile(r.path(record.Provider, record.Settings.Name), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("record the cluster: %w", err)
	}
	return nil
}

// Remove deletes a record, if there is one.
func (r Records) Remove(record Record) error {
	err := os.Remove(r.path(record.Provider, record.Settings.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of the cluster: %w", err)
	}
	return nil
}

// Of returns the record of a provider's cluster. The error wraps [fs.ErrNotExist] if there is none.
func (r Records) Of(provider, name string) (Record, error) {
	if !nameForm.MatchString(name) {
		return Record{}, fmt.Errorf("record of cluster %q: %w", name, fs.ErrNotExist)
	}
	return readRecord(r.path(provider, name))
}

func (r Records) path(provider, name string) string {
	return filepath.Join(string(r), provider+"-"+name+".json")
}

// All returns the records in the order of their names.
func (r Records) All() ([]Record, error) {
	entries, err := os.ReadDir(string(r))
	if err != nil {
		return nil, fmt.Errorf("list the records of clusters: %w", err)
	}
	var all []Record
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		record, err := readRecord(filepath.Join(string(r), e.Name()))
		if err != nil {
			return all, err
		}
		all = append(all, record)
	}
	return all, nil
}

func readRecord(path string) (Record, error) {
	text, err := regular.ReadFile(path, maxRecord)
	if err != nil {
		return Record{}, err
	}
	var record Record
	if err := json.Unmarshal(text, &record); err != nil {
		return Record{}, fmt.Errorf("read %s: %w", path, err)
	}
	if record.Schema != recordSchema || filepath.Base(path) != record.Provider+"-"+record.Settings.Name+".json" {
		return Record{}, hint.New("move it away; the program of the provider deletes the cluster", "%s is not a record of tare", path)
	}
	return record, nil
}
