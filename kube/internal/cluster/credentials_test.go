package cluster

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

type tripper func() (*http.Response, error)

func (f tripper) RoundTrip(*http.Request) (*http.Response, error) { return f() }

// A failing plugin is called at growing intervals, and no longer after it has succeeded.
func TestCredentialPluginIsCalledRarely(t *testing.T) {
	now := time.Unix(0, 0)
	calls := 0
	failure := errors.New("getting credentials: exec: executable login failed with exit code 1")
	err := failure
	c := &credentials{now: func() time.Time { return now }, next: tripper(func() (*http.Response, error) { calls++; return &http.Response{}, err })}
	for range 1500 { // 150 s, a request each 100 ms
		if _, got := c.RoundTrip(nil); !errors.Is(got, failure) {
			t.Fatalf("%v, want %v", got, failure)
		}
		now = now.Add(100 * time.Millisecond)
	}
	// After 0, 1, 3, 7, 15, 31, 61, 91 and 121 s, each a tenth of a second late.
	if calls != 9 {
		t.Errorf("%d calls, want 9", calls)
	}
	err, now, calls = nil, now.Add(time.Minute), 0
	for range 3 {
		if _, got := c.RoundTrip(nil); got != nil {
			t.Error(got)
		}
	}
	err = errors.New("another failure")
	for range 2 {
		if _, got := c.RoundTrip(nil); !errors.Is(got, err) {
			t.Errorf("%v, want %v", got, err)
		}
	}
	if calls != 5 {
		t.Errorf("%d calls, want 5", calls)
	}
}
