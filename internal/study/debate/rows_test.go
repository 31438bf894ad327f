package debate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// allRows returns the rows of a CSV as text, and the error at their end.
func allRows(r records) (rows []string, err error) {
	for {
		line, cells, err := r.next()
		if err != nil {
			return rows, err
		}
		rows = append(rows, fmt.Sprintf("%d:%s", line, bytes.Join(cells, []byte("|"))))
	}
}

func libraryRows(b []byte) records {
	r := csv.NewReader(bytes.NewReader(b))
	r.ReuseRecord = true
	return &quotedRecords{csv: r}
}

// sameRows compares the rows of a text without quotes with the rows that
// encoding/csv reads.
func sameRows(t *testing.T, b []byte) {
	t.Helper()
	got, gotErr := allRows(&plainRecords{rest: b})
	want, wantErr := allRows(libraryRows(b))
	if !slices.Equal(got, want) {
		t.Errorf("%q: rows %q, the library has %q", b, got, want)
	}
	var p, q *csv.ParseError
	switch {
	case errors.Is(wantErr, io.EOF) && errors.Is(gotErr, io.EOF):
	case errors.As(gotErr, &p) && errors.As(wantErr, &q) && p.Line == q.Line && errors.Is(p.Err, q.Err):
	default:
		t.Errorf("%q: error %v, the library has %v", b, gotErr, wantErr)
	}
}

func TestPlainRowsAreTheLibrarys(t *testing.T) {
	for _, text := range []string{
		"", "\n", "\r\n\r\n", "a", "a,b", "a,b\n", "a,b\r\n1,2\r\n", "a,b\n\n1,2\n", "a,b\n1\n", "a,b\n1,2,3\n3,4\n", "a,b\n,\n",
		"a,b\n1,2", "a,b\n1,2\r", "a\rb,c\n1,2\n", "a,b\n\r\r\n1,2\n", "\r", "a,b\n1,2\r\r\n", " a , b \n 1 , 2 \n", "\xff,\x00\n1,2\n", ",\n",
	} {
		sameRows(t, []byte(text))
	}
	if _, plain := recordsOf([]byte("a,b\n\"1\",2\n")).(*plainRecords); plain {
		t.Error("quotes are not the library's to read")
	}
}

func FuzzPlainRows(f *testing.F) {
	f.Add([]byte("timestamp,mesh CPU\r\n2025-03-27 17:08:11,1\r\n\n,"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.IndexByte(b, '"') < 0 {
			sameRows(t, b)
		}
	})
}

// Rows do not share cells, for any number and width of rows.
func TestRoomOfRows(t *testing.T) {
	for _, width := range []int{0, 1, 49, manyCells + 1} {
		var r room
		for row := range 2*manyRows + 1 {
			values, places := r.row(width)
			if d := difftest.Of("len(values)", len(values), width, "cap(values)", cap(values), width, "len(places)", len(places), width, "cap(places)", cap(places), width); d != "" {
				t.Fatalf("%s: row %d of %d: %d values, %d places", d, row, width, len(values), len(places))
			}
			for i := range values {
				if values[i] != 0 || places[i] != nil {
					t.Fatalf("row %d of %d is shared with another", row, width)
				}
				values[i], places[i] = 1, &values[i]
			}
		}
	}
}

// The heading of one file is not used for another with other columns.
func TestHeadingsAreTheirOwn(t *testing.T) {
	split := func(s string) [][]byte { return bytes.Split([]byte(s), []byte(",")) }
	for _, names := range []string{"mesh CPU,mesh mem", "mesh CPU,mesh mem", "mesh mem,mesh CPU", "mesh CPU", "face app CPU,what"} {
		h := must.Get(headingOf(split(names)))(t)
		if got := strings.Join(h.names, ","); got != names || len(h.columns) != len(h.names) || len(h.index) != len(h.names) {
			t.Errorf("heading %q of %q, %d columns", got, names, len(h.columns))
		}
	}
	if h, _ := headingOf(split("face app CPU,what")); len(h.components) != 1 || !slices.Equal(h.strange, []string{"what"}) {
		t.Errorf("components %v, strange %q", h.components, h.strange)
	}
	if _, err := headingOf(split("mesh CPU,mesh CPU")); err == nil {
		t.Error("a duplicate column")
	}
}
