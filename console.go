package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
)

// reach is the address and the key with which a command asks a running server.
type reach struct{ url, key string }

// readReach parses the options of a command that asks a running server. The key is MNEME_KEY, or else the key that
// the server's first start saved in its data folder. A command may have more options.
func readReach(name string, args []string, env lookup, stderr io.Writer, more ...option) (reach, error) {
	r, data := reach{url: "http://" + defaultListen}, defaultData
	_, err := readOptions(flag.NewFlagSet(name, flag.ContinueOnError), append([]option{
		{"url", "MNEME_URL", "", &r.url, "`URL` of the running server"},
		{"data", "MNEME_DATA", "", &data, "`FOLDER` of the server, whose admin.key is used where MNEME_KEY is not set"},
		{"", "MNEME_KEY", "", &r.key, "the key to ask with"}, // no flag: any user of the machine can read a command line
	}, more...), args, env, stderr)
	r.url = strings.TrimSuffix(r.url, "/")
	if err != nil || r.key != "" {
		return r, err
	}
	kept, err := os.ReadFile(keyFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("no key: there is no %s; say the server's folder with --data, or a key in MNEME_KEY",
			keyFile(data))
	} else if err != nil {
		return r, err
	}
	r.key = strings.TrimSpace(string(kept))
	return r, nil
}

// printConsoleLink gets a link to the console from a running server and prints it.
func printConsoleLink(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	r, err := readReach("console", args, env, stderr)
	if err != nil {
		return err
	}
	link, err := r.consoleLink(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, link)
	return err
}

// consoleLink gets a URL from the server that signs a browser in.
func (r reach) consoleLink(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/console/links", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking the server: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return "", refusedByServer(res)
	}
	var made struct{ Link string }
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil {
		return "", fmt.Errorf("reading the server's answer: %w", err)
	}
	return consoleLink(r.url, made.Link), nil
}

// consoleLink returns the URL that signs a browser in. The token is in the fragment, which browsers do not send.
func consoleLink(url, link string) string { return url + "/console/#link=" + link }
