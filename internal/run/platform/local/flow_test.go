package local

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A proxy may count the connections that it refused after the verification that made them.
func TestBaselineWaitsForLateCounts(t *testing.T) {
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"requests": %d}`, min(reads.Add(1), 4)) // it rests from the fourth reading on
	}))
	defer server.Close()
	p := &pod{name: "a-0", api: netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "http://"))}
	flows := []flow{{parts: []part{{pod: p}}}}
	v := &verifier{settle: time.Minute}
	for _, want := range []int64{1, 4} {
		got, err := v.baseline(t.Context(), flows)
		if err != nil || got[0].sum != want {
			t.Errorf("refused %v: baseline %+v, %v; want %d", v.refused, got, err, want)
		}
		v.refused = true
	}
}
