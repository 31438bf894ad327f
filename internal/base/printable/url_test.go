package printable

import (
	"strings"
	"testing"
)

func TestURLWithoutPassword(t *testing.T) {
	for raw, want := range map[string]string{
		"http://u:S3CRET x@h/":     `URL "http://xxxxx@h/": the part before @ is not of the form user:password`,
		"http://u:S3CRET/x@h/":     `URL "http://xxxxx@h/": the part before @ is not of the form user:password`,
		"http://u:S3CRET#x@h:80/a": `URL "http://xxxxx@h:80/a": the part before @ is not of the form user:password`,
		"http://u:S3CRET%zz@h/":    `URL "http://xxxxx@h/": the part before @ is not of the form user:password`,
		"http://h:bad/":            `URL "http://h:bad/": invalid port ":bad" after host`,
	} {
		if _, err := ParseURL(raw); err == nil || err.Error() != want || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
	if u, err := ParseURL("http://h/@me?a=b"); err != nil || u.Path != "/@me" {
		t.Errorf("%v, %v", u, err)
	}
	if got := URL("ftp://u:S3CRET@h"); got != "ftp://xxxxx@h" {
		t.Error(got)
	}
}
