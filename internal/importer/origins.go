package importer

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// origin is the file that a figure came from.
type origin struct {
	Trial  string `json:"trial"`
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Copied is its name in originals.tar; absent: it is too large to be copied.
	Copied string `json:"copied,omitempty"`
}

// Names within the results directory of an import.
const (
	originsFile   = "origins.json"
	originalsFile = "originals.tar"
)

// maxCopy bounds a file that is copied; a larger one is named with its checksum.
const maxCopy = 1 << 20

// keep copies the files of the trials into one archive: those of up to
// a mebibyte whole, and the checksums of all of them beside it.
func (s *Study) keep(d *result.Bulk, p *plan.Plan) error {
	f, err := os.Create(d.Path(originalsFile))
	if err != nil {
		return fmt.Errorf("keep the imported files: %w", err)
	}
	buffered := bufio.NewWriterSize(f, 256<<10)
	a := archive{tar: tar.NewWriter(buffered)}
	for i := range s.Trials {
		for _, path := range s.Trials[i].Files {
			if err := a.add(p.Trials[i].ID, path, s.Trials[i].originals[path]); err != nil {
				return errors.Join(fmt.Errorf("keep %s: %w", path, err), f.Close())
			}
		}
	}
	b, err := json.MarshalIndent(a.origins, "", "  ")
	if err = errors.Join(err, a.tar.Close(), buffered.Flush(), f.Close()); err == nil {
		err = os.WriteFile(d.Path(originsFile), append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep the imported files: %w", err)
	}
	return nil
}

// archive is the originals of an import as they are added.
type archive struct {
	tar     *tar.Writer
	origins []origin
	buffer  []byte // of up to maxCopy bytes and one more
}

// add adds a file; read is its content, nil: it is read now.
func (a *archive) add(trial, file string, read []byte) error {
	if read != nil {
		return a.copy(trial, file, read)
	}
	if a.buffer == nil {
		a.buffer = make([]byte, maxCopy+1)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.ReadFull(f, a.buffer)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
	case err != nil:
		return err
	default:
		return a.name(trial, file, f)
	}
	return a.copy(trial, file, a.buffer[:n])
}

// copy adds a file that is copied whole.
func (a *archive) copy(trial, file string, b []byte) error {
	sum := sha256.Sum256(b)
	o := origin{Trial: trial, Path: file, Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), Copied: path.Join(trial, filepath.Base(file))}
	a.origins = append(a.origins, o)
	if err := a.tar.WriteHeader(&tar.Header{Name: o.Copied, Mode: 0o644, Size: int64(len(b))}); err != nil {
		return err
	}
	_, err := a.tar.Write(b)
	return err
}

// name gives the checksum of a file that is too large to be copied, and whose
// beginning is in the buffer.
func (a *archive) name(trial, file string, rest io.Reader) error {
	hash := sha256.New()
	_, _ = hash.Write(a.buffer) // cannot fail
	n, err := io.Copy(hash, rest)
	if err != nil {
		return err
	}
	a.origins = append(a.origins, origin{Trial: trial, Path: file, Bytes: n + int64(len(a.buffer)), SHA256: hex.EncodeToString(hash.Sum(nil))})
	return nil
}
