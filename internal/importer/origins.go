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

	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// origin is the source file of a figure.
type origin struct {
	Trial string `json:"trial"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// SHA256 is absent for the file of a failed trial that cannot be read, or that is too large.
	SHA256 string `json:"sha256,omitempty"`
	// Copied is its name in originals.tar. It is absent if the file was too large to be copied.
	Copied string `json:"copied,omitempty"`
}

// Names within the results directory of an import.
const (
	originsFile   = result.OriginsFile
	originalsFile = result.OriginalsFile
)

// maxCopy is the max size of a copied file. For larger files only the checksum
// is stored.
const maxCopy = 1 << 20

// keep archives the files of the trials: whole files up to 1 MiB, and the
// checksums of all files.
func (s *Study) keep(d *result.Bulk, p *plan.Plan) error {
	f, err := d.Create(originalsFile)
	if err != nil {
		return fmt.Errorf("keep the imported files: %w", err)
	}
	buffered := bufio.NewWriterSize(f, 256<<10)
	a := archive{tar: tar.NewWriter(buffered)}
	private := false
	for i := range s.Trials {
		limit, failed := int64(maxStream), s.Trials[i].Record.Error != ""
		if failed { // reading up to a stream's limit would take minutes
			limit = maxFile
		}
		for _, path := range s.Trials[i].Files {
			if info, err := os.Lstat(path); err == nil && info.Mode().Perm()&0o004 == 0 {
				private = true
			}
			err := a.add(p.Trials[i].ID, path, s.Trials[i].originals[path], limit)
			if _, bad := errors.AsType[*FileError](err); bad && failed {
				a.origins = append(a.origins, origin{Trial: p.Trials[i].ID, Path: path})
				continue
			}
			if err != nil {
				return errors.Join(fmt.Errorf("keep %s: %w", path, err), f.Close())
			}
		}
	}
	b, err := json.MarshalIndent(a.origins, "", "  ")
	if private { // others could not read each of the originals
		err = errors.Join(err, f.Chmod(0o600))
	}
	if err = errors.Join(err, a.tar.Close(), buffered.Flush(), f.Close()); err == nil {
		err = d.Write(originsFile, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the imported files: %w", err)
	}
	return nil
}

// archive is the archive of an import's originals while it is written.
type archive struct {
	tar     *tar.Writer
	origins []origin
	buffer  []byte // up to maxCopy bytes and one more
}

// add adds a file. read is its content. Nil means that add reads the file, of at most limit bytes.
func (a *archive) add(trial, file string, read []byte, limit int64) error {
	if read != nil {
		return a.copy(trial, file, read)
	}
	if a.buffer == nil {
		a.buffer = make([]byte, maxCopy+1)
	}
	f, err := regular.Open(file, limit)
	if err != nil {
		return fileError(file, err)
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

// name adds the checksum of a file too large to be copied. The buffer contains
// its beginning.
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
