package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Error is an error of reading or writing a results directory.
type Error struct {
	Op   string // "write", "read", "resume", …
	Path string
	Line int // of the file, 0 if unknown
	hint.Hinted
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s %s:%d: %v", e.Op, e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err)
}

// Limits of the files of a results directory that are read whole, in bytes.
const (
	maxExperiment = strict.MaxBytes
	maxLog        = 1 << 50 // logs are never whole in memory
	// maxJSON is far above the largest import: a day of samples of 1000 tasks.
	maxJSON = 1 << 30
)

// readJSON decodes the file at path into v, whose schema must be want. It
// ignores unknown fields: a schema version may grow.
func readJSON(path string, v any, want string, schema func() string) error {
	text := texts.Get().(*bytes.Buffer)
	defer texts.Put(text)
	text.Reset()
	if err := regular.ReadInto(text, path, maxJSON); err != nil {
		return storage("read", path, err)
	}
	return decode(path, text.Bytes(), v, want, schema)
}

// storageHelp contains the hints for file system errors.
var storageHelp = []struct {
	err  error
	help string
}{
	{syscall.ENOSPC, "free space on the file system of %[1]s, then go on with: tare run --resume %[1]s (finished trials are intact)"},
	{syscall.EDQUOT, "your disk quota is used up on the file system of %[1]s: free some, then go on with: tare run --resume %[1]s (finished trials are intact)"},
	{syscall.EROFS, "the file system of %[1]s is read-only: choose another directory with --out"},
	{syscall.EACCES, "make %[1]s readable and writable for this user, or choose another directory with --out"},
	{syscall.EIO, "the disk under %[1]s reports an I/O error: see the kernel's log"},
}

// storage wraps a file system error, with a hint.
func storage(op, path string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Path: path, Hinted: hint.Hinted{Err: err}}
	// The path is printed only once. That of a root is relative.
	if p, ok := errors.AsType[*os.PathError](err); ok && strings.HasSuffix(path, p.Path) {
		e.Err = p.Err
	}
	e.Text = hint.Of(err)
	for _, h := range storageHelp {
		if errors.Is(err, h.err) {
			e.Text = fmt.Sprintf(h.help, root(path))
			break
		}
	}
	return e
}

// root returns the results directory of path, for hints.
func root(path string) string {
	for p := path; ; p = filepath.Dir(p) {
		if filepath.Base(p) == TrialsDir {
			return filepath.Dir(p)
		}
		if filepath.Dir(p) == p {
			break
		}
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}

// described are the files of names and conditions, which messages print in a line.
var described = []string{PlanFile, EnvironmentFile, StoppedFile}

// decode is readJSON for the content of a file. Decoded values do not point into b.
func decode(path string, b []byte, v any, want string, schema func() string) error {
	if slices.Contains(described, filepath.Base(path)) {
		b = singleLines(b)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return &Error{Op: "read", Path: path, Line: lineOf(b, err), Hinted: hint.Hinted{Err: wrongType(err), Text: "the file is damaged: restore it, or remove the trial it belongs to and run it again with --resume"}}
	}
	if got := schema(); got != want {
		return &Error{Op: "read", Path: path, Hinted: hint.Hinted{Err: fmt.Errorf("schema %q is not %q", got, want), Text: "the file was written by another version of tare: read it with that version"}}
	}
	return nil
}

// escapes are those in strings of JSON.
var escapes = regexp.MustCompile(`\\(u[0-9A-Fa-f]{4}|.)`)

// singleLines replaces line ends in strings of JSON by spaces. A name of another person could otherwise begin a line
// of its own in a log, such as a command of CI.
func singleLines(text []byte) []byte {
	return escapes.ReplaceAllFunc(text, func(of []byte) []byte {
		switch strings.ToLower(string(of)) {
		case `\n`, `\r`, `\u000a`, `\u000d`:
			return bytes.Repeat([]byte(" "), len(of))
		}
		return of
	})
}

// jsonTypes names the JSON of Go's kinds. All others are numbers.
var jsonTypes = map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Array: "a list",
	reflect.Map: "an object", reflect.Struct: "an object"}

// wrongType describes a value of another JSON type without the names of Go's types. It returns other errors as they are.
func wrongType(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	place := ""
	if wrong.Field != "" {
		place = " in field " + wrong.Field
	}
	return fmt.Errorf("found %s%s, expected %s", wrong.Value, place, cmp.Or(jsonTypes[wrong.Type.Kind()], "a number"))
}

func lineOf(b []byte, err error) int {
	var offset int64
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &typ):
		offset = typ.Offset
	default:
		return 0
	}
	offset = min(max(offset, 0), int64(len(b)))
	return 1 + bytes.Count(b[:offset], []byte("\n"))
}
