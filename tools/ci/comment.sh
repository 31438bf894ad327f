#!/usr/bin/env bash
# comment.sh FILE writes FILE as a comment on the pull request of a GitHub Actions job, or replaces the one that an
# earlier job wrote under the same title. Without a pull request, or without permission, the job goes on.
#
# - TARE_TITLE: title. Each job of a pull request needs its own.
# - GITHUB_TOKEN: token with the permission pull-requests: write.
# - GITHUB_API_URL, GITHUB_REPOSITORY and GITHUB_EVENT_PATH are the runner's.
#
# It needs curl and jq.
set -euo pipefail
number=$(jq -r '.pull_request.number // empty' "$GITHUB_EVENT_PATH")
if ! [[ $number =~ ^[0-9]+$ ]]; then
  echo "no pull request: no comment"
  exit 0
fi
marker=$(jq -rn --arg title "${TARE_TITLE:-tare ab}" '"<!-- tare: " + ($title | gsub("[^A-Za-z0-9 ._/-]"; "") | gsub("--+"; "-")) + " -->"')

# The token is read from a pipe: arguments of a process are visible to others.
api() {
  curl --silent --show-error --fail-with-body --max-time 60 --retry 2 \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "$GITHUB_TOKEN") \
    -H 'Accept: application/vnd.github+json' -H 'X-GitHub-Api-Version: 2022-11-28' "$@"
}
issues=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues

# GitHub refuses comments of more than 65,536 characters. The report is in the artifact as well.
body=$(jq -Rs --arg marker "$marker" '
  if length > 65000 then .[0:(index("<details>") // 65000)][0:65000] + "\nThe report is too long for a comment: see the artifact.\n" else . end
  | {body: ($marker + "\n" + .)}' "$1")

# Anyone can write a comment that begins with the marker, and edit it after the job. Those of other users are left alone.
comment=
for page in 1 2 3 4 5; do
  if ! found=$(api "$issues/$number/comments?per_page=100&page=$page"); then
    printf '::warning::no comment: %s\n' "$(head -c 300 <<<"$found" | tr -d '\r\n')"
    exit 0
  fi
  comment=$(jq -r --arg marker "$marker" 'map(select((.body // "" | startswith($marker)) and ((.user.type // "Bot") == "Bot" or (.author_association | IN("OWNER", "MEMBER", "COLLABORATOR")))))[0].id // empty' <<<"$found")
  if [ -n "$comment" ] || [ "$(jq length <<<"$found")" -lt 100 ]; then break; fi
done
if [[ $comment =~ ^[0-9]+$ ]] && api -X PATCH --data @- "$issues/comments/$comment" <<<"$body" >/dev/null; then
  echo "comment $comment was replaced"
elif api -X POST --data @- "$issues/$number/comments" <<<"$body" >/dev/null; then
  echo "commented on pull request $number"
else
  echo "::warning::no comment: the token has no permission pull-requests: write"
fi
