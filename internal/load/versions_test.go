package load

import (
	"strconv"
	"testing"
)

// Each value has one number, and values beyond the bound have none.
func TestVersionsAreNumbered(t *testing.T) {
	v := NewVersions()
	for range 2 {
		for n := range 1000 {
			v.Number([]byte(strconv.Itoa(n)))
		}
	}
	if len(v.Values) != 1001 {
		t.Fatalf("%d values, want 1000 and the absent one", len(v.Values))
	}
	for n, value := range v.Values[1:] {
		if got := v.Number([]byte(value)); got != int32(n+1) {
			t.Errorf("value %q has number %d, want %d", value, got, n+1)
		}
	}
	for n := range maxVersions {
		v.Number([]byte("more " + strconv.Itoa(n)))
	}
	if got := v.Number([]byte("one more")); got != 0 || len(v.Values) != maxVersions {
		t.Errorf("beyond the bound: number %d of %d values", got, len(v.Values))
	}
}
