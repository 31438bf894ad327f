package platform

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// While 200 pods become ready one after another, the wait prints a line every ten seconds, with the state of that moment.
func TestDelayedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var lines []string
		r := NewDelayedReport(func(s string) { lines = append(lines, fmt.Sprintf("%v %s", time.Since(began), s)) })
		for ready := range 201 {
			r.Add(fmt.Sprintf("%d of 200 replicas ready", ready))
			time.Sleep(155 * time.Millisecond)
		}
		r.Close()
		time.Sleep(time.Minute)
		if got, want := strings.Join(lines, "\n"), "10s 64 of 200 replicas ready\n20s 129 of 200 replicas ready\n30s 193 of 200 replicas ready"; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})
}

// States that alternate, such as after a failed pull, are printed once each.
func TestDelayedReportRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		r := NewDelayedReport(func(s string) { lines = append(lines, s) })
		for i := range 20 {
			r.Add([]string{"ErrImagePull", "ImagePullBackOff"}[i%2])
			time.Sleep(15 * time.Second)
		}
		r.Close()
		if got := strings.Join(lines, ", "); got != "ErrImagePull, ImagePullBackOff" {
			t.Error(got)
		}
	})
}
