package result

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzCells: the hand-written reader agrees with encoding/json.
func FuzzCells(f *testing.F) {
	for _, s := range []string{`[1,null,2.5e3]`, `[]`, `null`, `[ 1 ]`, `[-0,1e308,00]`, `[1,]`, `{"a":1}`, `[1,[2]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var got Cells
		var want []*float64
		e1, e2 := json.Unmarshal(b, &got), json.Unmarshal(b, &want)
		if (e1 == nil) != (e2 == nil) {
			t.Fatalf("%v by hand, %v by the library", e1, e2)
		}
		if e1 != nil {
			return
		}
		if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual([]*float64(got), want) {
			t.Errorf("%s: %v by hand, %v by the library", b, got, want)
		}
		again, err := json.Marshal(got)
		var back Cells
		if err != nil || json.Unmarshal(again, &back) != nil || len(back) != len(got) {
			t.Errorf("%s is written as %s: %v", b, again, err)
		}
	})
}

// FuzzBuckets likewise.
func FuzzBuckets(f *testing.F) {
	for _, s := range []string{`[{"lowMS":0,"highMS":1.5,"count":7},{"lowMS":1.5,"highMS":2,"count":9}]`, `[]`, `[{"count":1}]`, `[{"lowMS":1,"highMS":2,"count":1.5}]`, `[{"lowMS":1,"highMS":2,"count":9007199254740993}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var got Buckets
		var want []Bucket
		e1, e2 := json.Unmarshal(b, &got), json.Unmarshal(b, &want)
		if (e1 == nil) != (e2 == nil) {
			t.Fatalf("%v by hand, %v by the library", e1, e2)
		}
		if e1 == nil && (len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual([]Bucket(got), want)) {
			t.Errorf("%s: %v by hand, %v by the library", b, got, want)
		}
	})
}
