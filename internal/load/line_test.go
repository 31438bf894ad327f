package load

import (
	"errors"
	"strings"
	"testing"
)

func TestLinesReport(t *testing.T) {
	const progress = `{"progress":{"second":1,"phase":"measure"}}` + "\n\n"
	for _, test := range []struct {
		name, output string
		progress     int
		err          string
	}{
		{"report last", progress + progress + `{"report":{"engine":"epoll"}}`, 2, ""},
		{"no report", progress, 1, ErrNoReport.Error()},
		{"empty", "", 0, ErrNoReport.Error()},
		{"no JSON", progress + "panic: x\n", 1, `"panic: x"`},
		{"line too long", strings.Repeat("x", maxLine+1), 0, "token too long"},
	} {
		seen := 0
		r, err := NewLines(strings.NewReader(test.output)).Report(func(Progress) { seen++ })
		if test.err == "" && (err != nil || r.Engine != "epoll") || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: %+v, %v", test.name, r, err)
		}
		if seen != test.progress {
			t.Errorf("%s: %d progress lines, want %d", test.name, seen, test.progress)
		}
	}
	if _, err := LastReport(nil); !errors.Is(err, ErrNoReport) {
		t.Errorf("no output: %v", err)
	}
}
