package result

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// rowTexts are lists of rows, some in tare's formatting.
var rowTexts = []string{
	`null`, `[]`, `[null]`, `[{}]`, `{}`, `[{"at":"2025-03-27T15:38:05Z"}]`, `[{"at":"2025-03-27T15:38:05.5+02:00","repeat":true},{"at":"2025-03-27T15:38:15Z","cores":[1,null],"memory":[2,3]}]`,
	`[{"at":"2025-03-27T15:38:05Z","nodeCores":[1],"nodeMemory":[2.5e9]}]`, `[{"at":"2025-03-27T15:38:05Z","memory":[2],"cores":[1]}]`, `[{"at":"2025-03-27T15:38:05Z","cores":[]}]`,
	`[{"at":"2025-03-27T15:38:05Z","cores":null}]`, `[{"at":"2025-03-27"}]`, `[{"at":"2025-03-27T15:38:05Z","repeat":false}]`, `[ {"at":"2025-03-27T15:38:05Z"} ]`, `[{"at":"2025-03-27T15:38:05Z","more":[1]}]`,
	`[{"at":"2025-03-27T15:38:05Z","cores":[1,[2]]}]`, `[{"at":"2025-03-27T15:38:05Z","cores":["1"]}]`, `[{"at":"2025-03-27T15:38:05Z"},]`, `[{"at":null}]`, `[{"at":"\u0032025-03-27T15:38:05Z"}]`, `[{"at":"2025-03-27T15:38:05Z","cores":[1]`,
}

// sameAsLibrary compares the hand-written reader and writer with encoding/json.
func sameAsLibrary(t *testing.T, text []byte) {
	t.Helper()
	var want []SampledRow
	var got SampledRows
	err1, err2 := json.Unmarshal(text, &want), json.Unmarshal(text, &got)
	if (err1 == nil) != (err2 == nil) {
		t.Fatalf("%s: %v by hand, %v by the library", text, err2, err1)
	}
	if err1 != nil {
		return
	}
	if !reflect.DeepEqual(want, []SampledRow(got)) {
		t.Errorf("%s: %+v by hand, %+v by the library", text, got, want)
	}
	b1, err1 := json.Marshal(want)
	b2, err2 := json.Marshal(got)
	if (err1 == nil) != (err2 == nil) || !bytes.Equal(b1, b2) {
		t.Errorf("%s is written as %s by hand (%v), as %s by the library (%v)", text, b2, err2, b1, err1)
	}
}

func TestRowsAreOrdinaryJSON(t *testing.T) {
	for _, text := range rowTexts {
		sameAsLibrary(t, []byte(text))
	}
	nan := math.NaN()
	for _, r := range []SampledRow{{Cores: Cells{&nan}}, {At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}} {
		if _, err := json.Marshal(SampledRows{r}); err == nil {
			t.Errorf("%+v is written", r)
		}
	}
}

func FuzzRows(f *testing.F) {
	for _, text := range rowTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(sameAsLibrary)
}

// A histogram is byte for byte the output of encoding/json, for any numbers.
func TestBucketsAreWrittenAsByTheLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	all := Buckets{{0, 1e-6, 1}, {1e-6, 9.999e-7, 2}, {1e-9, 1e21, -3}, {1e20, 123456789, math.MaxInt64}, {math.SmallestNonzeroFloat64, math.MaxFloat64, 0}, {-1.5, 1e-10, 7}}
	for range 1000 {
		all = append(all, Bucket{math.Float64frombits(random.Uint64()), random.NormFloat64(), random.Int64()})
	}
	for _, x := range all {
		b1, err1 := json.Marshal([]Bucket{x})
		b2, err2 := json.Marshal(Buckets{x})
		if (err1 == nil) != (err2 == nil) || !bytes.Equal(b1, b2) {
			t.Errorf("%s (%v) by hand, %s (%v) by the library", b2, err2, b1, err1)
		}
	}
	if b, err := json.Marshal(Buckets(nil)); err != nil || string(b) != "null" {
		t.Errorf("no buckets are written as %s (%v)", b, err)
	}
}
