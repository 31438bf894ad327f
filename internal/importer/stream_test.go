//go:build unix

package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// ohaRows is oha's CSV of n requests; some fail.
func ohaRows(n int) string {
	var b strings.Builder
	b.WriteString("request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n")
	for i := range n {
		status := 200
		if i%50 == 49 {
			status = 503
		}
		fmt.Fprintf(&b, "%.6f,0,0,%.6f,%.6f,128,%d\n", float64(i)/1000, 0.0001+float64(i%97)/1e5, 0.0002+float64(i%89)/1e5, status)
	}
	return b.String()
}

// Reading in parts gives the figures of reading the whole.
func TestStreamedOutput(t *testing.T) {
	for _, corrected := range []bool{false, true} {
		text := ohaRows(20000)
		path := filepath.Join(t.TempDir(), "oha.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		streamed, err := streamOutput("oha", path, corrected)
		if err != nil || streamed == nil {
			t.Fatalf("%v, %v", streamed, err)
		}
		whole, err := ParseOutput("oha", path, []byte(text), corrected)
		if err != nil {
			t.Fatal(err)
		}
		whole.warnings = nil // notes about the output's kind
		streamed.warnings = nil
		if !reflect.DeepEqual(streamed, whole) {
			t.Errorf("corrected %v: in parts\n%+v\nwhole\n%+v", corrected, streamed, whole)
		}
	}
}

// A device or FIFO neither blocks nor fills the memory, and its error names it.
func TestOutputsThatAreNoFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name := range formats {
		for _, path := range []string{"/dev/zero", fifo} {
			if _, err := readOutput(name, path, false); err == nil || !strings.Contains(err.Error(), path+": not a regular file") {
				t.Errorf("%s %s: %v", name, path, err)
			}
		}
	}
}

// An oha CSV with a torn row has its line in the error.
func TestStreamedOutputThatIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oha.csv")
	if err := os.WriteFile(path, []byte(ohaRows(3)+"0.004,0,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readOutput("oha", path, false); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 5") {
		t.Errorf("%v", err)
	}
}
