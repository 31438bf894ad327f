package load

import (
	"strconv"
	"sync"
	"testing"
)

// Connections of a portable worker see versions at the same time.
func TestVersionsOfManyConnections(t *testing.T) {
	v := NewVersions()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range 1000 {
				v.Number([]byte(strconv.Itoa(n)))
			}
		})
	}
	all.Wait()
	if len(v.Values) != 1001 {
		t.Fatalf("%d values, want 1000 and the absent one", len(v.Values))
	}
	for n, value := range v.Values[1:] {
		if got := v.Number([]byte(value)); got != int32(n+1) {
			t.Errorf("value %q has number %d, want %d", value, got, n+1)
		}
	}
}
