package printable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/test/must"
)

// hostile are an escape sequence that sets the title, the C1 form of its
// introducer, a bidirectional override and isolate, a line separator, a carriage
// return and a byte that is not UTF-8.
const hostile = "a\x1b]0;title\x07b\u009b31mc\u202ed\u2066e\u2028f\rg\xffh"

func TestText(t *testing.T) {
	want := "a\ufffd]0;title\ufffdb\ufffd31mc\ufffdd\ufffde\ufffdf\ufffdg\ufffdh"
	if got := printable.Text(hostile); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, s := range []string{"", "two\nlines\tand a tab", "µs − × “quoted” 日本語 عربى 👩‍🔬"} {
		if got := printable.Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := printable.Line("two\nlines"); got != "two lines" {
		t.Errorf("%q", got)
	}
}

func TestWriting(t *testing.T) {
	var b bytes.Buffer
	// A character may be written in two parts.
	err := printable.Writing(&b, func(w io.Writer) error {
		_, _ = w.Write([]byte("a\xe2\x80"))
		_, err := w.Write([]byte("\xaeb\n"))
		return err
	})
	if err != nil || b.String() != "a\ufffdb\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	b.Reset()
	failed := errors.New("failed")
	if err := printable.Writing(&b, func(w io.Writer) error { _, _ = w.Write([]byte("half")); return failed }); !errors.Is(err, failed) || b.Len() > 0 {
		t.Errorf("%q, %v: half a text", b.String(), err)
	}
}

// The value of JSON is unchanged, and its text has no control.
func TestWritingJSON(t *testing.T) {
	value := strings.ReplaceAll(hostile, "\xff", "")
	var b bytes.Buffer
	must.OK(t, printable.WritingJSON(&b, func(w io.Writer) error { return json.NewEncoder(w).Encode(value) }))
	if text := b.String(); printable.Text(text) != text {
		t.Errorf("controls in %q", text)
	}
	var back string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != value {
		t.Errorf("%q, %v, want %q", back, err, value)
	}
}

// CI obeys lines of a job's log. Addresses of IPv6 and styles of pages begin with two colons as well.
func TestWorkflowCommands(t *testing.T) {
	for in, want := range map[string]string{
		"a\n::error title=x::y": "a\n\ufffd:error title=x::y", "  ::warning::y": "  \ufffd:warning::y", "::set-output name=a::b": "\ufffd:set-output name=a::b",
		"a ##[error]b": "a \ufffd#[error]b", "##vso[task.setvariable]b": "\ufffd#vso[task.setvariable]b",
		"::1 answers": "::1 answers", "::ffff:10.0.0.1": "::ffff:10.0.0.1", "a ::error::b": "a ::error::b", "## heading": "## heading",
	} {
		if got := printable.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		var b bytes.Buffer
		if err := printable.Safe("text", func(w io.Writer, s string) error { _, err := io.WriteString(w, s); return err })(&b, in); err != nil || b.String() != want {
			t.Errorf("%q as text: %q, %v, want %q", in, b.String(), err, want)
		}
	}
}

func TestCounted(t *testing.T) {
	for _, c := range []struct {
		n          int
		noun, want string
	}{
		{1, "block", "1 block"}, {0, "block", "0 blocks"}, {2, "valid trial", "2 valid trials"}, {1, "trial of each", "1 trial of each"}, {2, "trial of each", "2 trials of each"},
		{2, "retry", "2 retries"}, {2, "proxy", "2 proxies"}, {2, "delay", "2 delays"}, {2, "series", "2 series"}, {2, "match", "2 matches"}, {2, "process", "2 processes"},
	} {
		if got := printable.Counted(c.n, c.noun); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"blocks=8": "blocks=8", "runs/a b": "'runs/a b'", "it's": `'it'\''s'`, "": "''", "factors.rate=[1, 2]": "'factors.rate=[1, 2]'"} {
		if got := printable.ShellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
