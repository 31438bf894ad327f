package result_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
)

// The hand-written reader accepts and returns the same lists as reflection.
func TestCellsAreOrdinaryJSON(t *testing.T) {
	for _, text := range []string{"null", "[]", "[null]", "[1]", "[1,null,2.5e-7,-3]", "[ 1, null ]", "[1e400]", `["1"]`, "[[1]]", "{}", "[1,[2]]", "[true]", "[0.1,1e+21,123456789012345680]"} {
		var want []*float64
		var got result.Cells
		err1, err2 := json.Unmarshal([]byte(text), &want), json.Unmarshal([]byte(text), &got)
		if (err1 == nil) != (err2 == nil) || err1 == nil && !reflect.DeepEqual(want, []*float64(got)) {
			t.Errorf("%s: %v and %v, expected %v and %v", text, got, err2, want, err1)
		}
		b1, _ := json.Marshal(want)
		b2, err := json.Marshal(result.Cells(want))
		var back []*float64
		if e := json.Unmarshal(b2, &back); err1 == nil && (err != nil || e != nil || !reflect.DeepEqual(back, want)) {
			t.Errorf("%s is written as %s, expected %s", text, b2, b1)
		}
	}
	nan := math.NaN()
	if _, err := json.Marshal(result.Cells{&nan}); err == nil {
		t.Error("NaN is written")
	}
}

func TestBucketsAreOrdinaryJSON(t *testing.T) {
	for _, text := range []string{"null", "[]", `[{"lowMS":0,"highMS":1.5,"count":3}]`, `[{"lowMS":0,"highMS":1.5,"count":3},{"lowMS":1.5,"highMS":2,"count":9007199254740993}]`,
		`[{"highMS":1.5,"lowMS":0,"count":3}]`, `[{"lowMS":0,"highMS":1,"count":1.5}]`, `[{"lowMS":0, "highMS":1}]`, `[{"lowMS":"0","highMS":1,"count":2}]`, `{}`, `[1]`,
		`[{"lowMS":0,"highMS":1,"count":1,"more":2}]`} {
		var want []result.Bucket
		var got result.Buckets
		err1, err2 := json.Unmarshal([]byte(text), &want), json.Unmarshal([]byte(text), &got)
		if (err1 == nil) != (err2 == nil) || err1 == nil && !reflect.DeepEqual(want, []result.Bucket(got)) {
			t.Errorf("%s: %v and %v, expected %v and %v", text, got, err2, want, err1)
		}
	}
}
