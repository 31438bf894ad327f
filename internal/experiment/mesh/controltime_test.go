package mesh

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The instants of one field are read, in the order of the page. One in another format is an error.
func TestUpdateTimes(t *testing.T) {
	u := Updates{Field: "last_updated"}
	got, err := u.Times([]byte(`{"configs": [{"last_updated": "2026-11-28T15:22:01.356Z", "version": "last_updated"}, {"last_updated":"2026-11-28T16:22:02+01:00"}, {"not_last_updated": "x"}]}`))
	want := []time.Time{time.UnixMilli(1795879321356), time.UnixMilli(1795879322000)}
	if err != nil || !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%v, want %v: %v", got, want, err)
	}
	if _, err := u.Times([]byte(`{"last_updated": "yesterday"}`)); err == nil || !strings.Contains(err.Error(), "last_updated") {
		t.Error(err)
	}
}
