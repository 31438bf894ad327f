package printable

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// URL is the text of a URL without what may be a password: all before its last @. The text need not be a URL.
func URL(raw string) string {
	at := strings.LastIndexByte(raw, '@')
	if at < 0 {
		return raw
	}
	scheme, _, ok := strings.Cut(raw[:at], "://")
	if !ok {
		return "xxxxx" + raw[at:]
	}
	return scheme + "://xxxxx" + raw[at:]
}

// WithoutPasswords replaces what may be passwords of URLs in arguments of a command line wherever a text repeats it.
func WithoutPasswords(text string, arguments []string) string {
	for _, a := range arguments {
		if _, rest, ok := strings.Cut(a, "//"); ok {
			if at := strings.LastIndexByte(rest, '@'); at > 0 {
				quoted := strconv.Quote(rest[:at])
				text = strings.NewReplacer(rest[:at]+"@", "xxxxx@", quoted[1:len(quoted)-1]+"@", "xxxxx@").Replace(text)
			}
		}
	}
	return text
}

// ParseURL is [url.Parse] with errors that contain no password.
func ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err == nil {
		return u, nil
	}
	reason := "the part before @ is not of the form user:password"
	var wrong *url.Error
	if errors.As(err, &wrong) && !strings.Contains(raw, "@") {
		reason = wrong.Err.Error()
	}
	return nil, fmt.Errorf("URL %q: %s", URL(raw), reason)
}
