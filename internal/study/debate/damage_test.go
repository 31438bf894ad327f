package debate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/debatetest"
	"github.com/tare-mesh/tare/test/must"
)

// lineOf changes line n (from 1) of a text.
func lineOf(b []byte, n int, change func(string) string) []byte {
	ls := strings.SplitAfter(string(b), "\n")
	ls[n-1] = change(ls[n-1])
	return []byte(strings.Join(ls, ""))
}

// cell changes one cell of a row.
func cell(n, column int, value string) func([]byte) []byte {
	return func(b []byte) []byte {
		return lineOf(b, n, func(s string) string {
			cells := strings.Split(s, ",")
			cells[column] = value
			return strings.Join(cells, ",")
		})
	}
}

// A damaged file of a run is an error that contains the file and the line; it
// never becomes a figure.
func TestDamagedFiles(t *testing.T) {
	const csv, log = "60-2-metrics.csv", "60-2-wrk2-"
	for _, c := range []struct {
		name, file string
		damage     func([]byte) []byte
		line       int // 0: any
		message    string
	}{
		{"last line cut off in a number", csv, func(b []byte) []byte { return b[:len(b)-6] }, 37, ""},
		{"cut off in the middle", csv, func(b []byte) []byte { return b[:len(b)/2] }, 0, ""},
		{"cut off in the header", csv, func(b []byte) []byte { return b[:100] }, 0, ""},
		{"empty", csv, func([]byte) []byte { return []byte{} }, 0, "empty"},
		{"header alone", csv, func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+1] }, 0, "no row"},
		{"rows reordered", csv, func(b []byte) []byte {
			ls := bytes.SplitAfter(b, []byte("\n"))
			ls[9], ls[20] = ls[20], ls[9]
			return bytes.Join(ls, nil)
		}, 11, "goes back"},
		{"row doubled", csv, func(b []byte) []byte { return lineOf(b, 12, func(s string) string { return s + s }) }, 13, "doubled"},
		{"two files joined", csv, func(b []byte) []byte { return append(b, b...) }, 38, "not a time"},
		{"NaN", csv, cell(8, 12, "nan"), 8, "not a number"},
		{"infinity", csv, cell(8, 12, "inf"), 8, "not a number"},
		{"hexadecimal", csv, cell(8, 12, "0x1p3"), 8, "not a number"},
		{"negative", csv, cell(8, 12, "-5"), 8, "not possible"},
		{"more cores than there are", csv, cell(8, 1, "9e18"), 8, "not possible"},
		{"letters", csv, cell(8, 1, "many"), 8, "not a number"},
		{"a figure changed", csv, cell(8, 11, "1"), 8, "add up"},
		{"a sum changed", csv, cell(8, 23, "12345"), 8, "add up"},
		{"a component above its sum", csv, func(b []byte) []byte {
			head, _, _ := bytes.Cut(b, []byte("\n"))
			for i, name := range strings.Split(string(head), ",") {
				if name == "face mesh CPU" {
					return cell(8, i, "99999999999")(b)
				}
			}
			return nil
		}, 8, "more than it"},
		{"a cell too few", csv, func(b []byte) []byte {
			return lineOf(b, 9, func(s string) string { return strings.Replace(s, ",", "", 1) })
		}, 9, "fields"},
		{"no time", csv, cell(8, 0, "yesterday"), 8, "not a time"},
		{"an open quote", csv, cell(8, 1, `"5`), 0, ""},
		{"zero bytes", csv, func(b []byte) []byte { return append(make([]byte, 200), b[200:]...) }, 0, ""},
		{"not a CSV", csv, func([]byte) []byte { return []byte("<html>404</html>\n") }, 1, "timestamp"},
		{"a column twice", csv, func(b []byte) []byte { return bytes.Replace(b, []byte("load CPU"), []byte("faces CPU"), 1) }, 1, "twice"},
		{"log cut off before its end", log, func(b []byte) []byte { return b[:bytes.Index(b, []byte("Requests/sec"))] }, 0, "cut off"},
		{"log cut off in its spectrum", log, func(b []byte) []byte { return b[:bytes.Index(b, []byte("0.900000"))] }, 0, "cut off"},
		{"lines of the spectrum missing", log, func(b []byte) []byte {
			i, end := bytes.Index(b, []byte("    0.90000")), bytes.Index(b, []byte("#[Mean"))
			return append(append([]byte{}, b[:bytes.LastIndexByte(b[:i], '\n')+1]...), b[end:]...)
		}, 0, "missing"},
		{"log doubled", log, func(b []byte) []byte { return append(b, b...) }, 0, "joined"},
		{"requests changed", log, func(b []byte) []byte {
			return regexp.MustCompile(`\d+ requests in`).ReplaceAll(b, []byte("99999 requests in"))
		}, 0, "requests/s"},
		{"NaN in the rate", log, func(b []byte) []byte {
			return regexp.MustCompile(`(?m)^Requests/sec:.*$`).ReplaceAll(b, []byte("Requests/sec:      nan"))
		}, 0, ""},
		{"empty log", log, func([]byte) []byte { return []byte{} }, 0, ""},
		{"log of another kind", log, func([]byte) []byte { return []byte("{\"a\": 1}\n") }, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := false
			q := debatetest.Sequence{Mesh: "linkerd", Rates: []int{60}, Runs: 4, First: 1, Change: func(name string, b []byte) []byte {
				if strings.HasPrefix(name, c.file) && !done {
					done = true
					return c.damage(b)
				}
				return b
			}}
			s := imported(t, q.Write(t, t.TempDir()))
			failed, _ := s.Failed()
			if failed != 1 || len(s.Trials) != 4 {
				t.Fatalf("%d of %d trials failed", failed, len(s.Trials))
			}
			for i := range s.Trials {
				r := &s.Trials[i].Record
				if r.Error == "" {
					continue
				}
				if r.Sampled != nil || r.Load != nil {
					t.Error("a figure was kept")
				}
				must.Contain(t, r.Error, c.file, c.message)
				m := regexp.MustCompile(`(?:csv|log):(\d+): `).FindStringSubmatch(r.Error)
				if m == nil && c.damage != nil && c.line != 0 || m != nil && c.line != 0 && m[1] != fmt.Sprint(c.line) {
					t.Errorf("error %q does not name line %d", r.Error, c.line)
				}
			}
		})
	}
}

// Whole files in the wrong place are detected and reported.
func TestFilesInTheWrongPlace(t *testing.T) {
	rates := []int{60, 120, 240}
	for _, c := range []struct {
		name    string
		arrange func(t *testing.T, root string)
		code    string
		invalid int
		message string
	}{
		{"two meshes swapped", func(t *testing.T, root string) {
			debatetest.Sequence{Mesh: "linkerd", Dir: "ambient", Rates: rates, Seed: 1}.Write(t, root)
			debatetest.Sequence{Mesh: "ambient", Dir: "linkerd", Rates: rates, Seed: 2}.Write(t, root)
		}, "other-mesh", 30, "swapped"},
		{"a mesh among the unmeshed", func(t *testing.T, root string) {
			debatetest.Sequence{Mesh: "istio", Dir: "unmeshed", Rates: rates}.Write(t, root)
		}, "other-mesh", 15, "istiod"},
		{"sidecars in a directory for istio", func(t *testing.T, root string) {
			debatetest.Sequence{Mesh: "ambient", Dir: "istio", Rates: rates}.Write(t, root)
		}, "other-mesh", 15, "ztunnel"},
		{"the CSV of another rate", func(t *testing.T, root string) {
			dir := debatetest.Sequence{Mesh: "linkerd", Rates: rates}.Write(t, root)
			move(t, dir, "240-3-metrics.csv", "60-2-metrics.csv")
		}, "other-rate", 1, "looks like a run at 240"},
		{"the logs of another rate", func(t *testing.T, root string) {
			dir := debatetest.Sequence{Mesh: "linkerd", Rates: rates, First: 1}.Write(t, root)
			for _, l := range match(t, dir, "60-2-wrk2-*") {
				must.OK(t, os.Remove(l))
			}
			for _, l := range match(t, dir, "240-3-wrk2-*") {
				move(t, dir, filepath.Base(l), strings.Replace(filepath.Base(l), "240-3", "60-2", 1))
			}
		}, "other-rate", 1, "the logs come from a run at 240"},
		{"a pod missing", func(t *testing.T, root string) {
			dir := debatetest.Sequence{Mesh: "linkerd", Rates: rates, First: 1}.Write(t, root)
			must.OK(t, os.Remove(match(t, dir, "120-4-wrk2-*")[0]))
		}, "other-rate", 1, "2 logs, and 3 in other runs"},
		{"a copy under another name", func(t *testing.T, root string) {
			dir := debatetest.Sequence{Mesh: "linkerd", Rates: rates, First: 1}.Write(t, root)
			b := must.Get(os.ReadFile(filepath.Join(dir, "120-1-metrics.csv")))(t)
			must.OK(t, os.WriteFile(filepath.Join(dir, "120-2-metrics.csv"), b, 0o644))
		}, "overlap", 2, "copy"},
		{"the clock set forward", func(t *testing.T, root string) {
			debatetest.Sequence{Mesh: "linkerd", Rates: rates, First: 1, Change: func(name string, b []byte) []byte {
				if name != "240-5-metrics.csv" {
					return b
				}
				ls := strings.SplitAfter(string(b), "\n")
				for i := 15; i < len(ls)-1; i++ {
					ls[i] = strings.Replace(ls[i], "2025-03-27", "2025-03-29", 1)
				}
				return []byte(strings.Join(ls, ""))
			}}.Write(t, root)
		}, "clock-jumped", 1, "set forward"},
		{"a run that was too short", func(t *testing.T, root string) {
			debatetest.Sequence{Mesh: "linkerd", Rates: rates, Seconds: 60, Runs: 1}.Write(t, root)
		}, "too-short", 3, "--warmup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			c.arrange(t, root)
			s := imported(t, root)
			n, text := 0, ""
			for i := range s.Trials {
				r := &s.Trials[i].Record
				if r.Error != "" {
					t.Fatal(r.Error)
				}
				for _, w := range r.Warnings {
					if w.Invalidates && w.Code == c.code {
						n++
						text = w.Message + " " + w.Hint
					}
				}
			}
			if _, invalid := s.Failed(); n != c.invalid || invalid != c.invalid {
				t.Errorf("%d of %s and %d invalid, expected %d", n, c.code, invalid, c.invalid)
			}
			must.Contain(t, text, c.message)
		})
	}
}

func move(t *testing.T, dir, from, to string) {
	t.Helper()
	must.OK(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
}

func match(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	return paths
}
