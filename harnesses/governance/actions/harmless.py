"""The table of harmless commands: programs, their verbs, and the options that are known to change and start nothing else.

    program [verb] | letters | long options | operands [| what it changes]

    letters      a: no value  a: a value, joined or next  a@ a file that is read  a? a value only if joined  # digits
    long         name  name= (a value, joined or next)  name@ (a file that is read)  name? (a value only if joined)
    operands     none, text (anything), read (files whose content is shown), write (files below the workspace), or the name of a
                 check in `checks`; after +, words known only when it runs may stand anywhere: no option of it could do harm

The law: what is not written here does not pass. Options are compared whole: `--outp` is not `--output`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from attrs import frozen

_ROWS = """
: | | | text+
true | | | text+
false | | | text+
echo | neE | | text+
printf | | | printf
pwd | LP | | none
cd | | | cd
exit | | | number
return | | | number
break | | | number
continue | | | number
sleep | | | number
wait | | | none
set | eufx | | set
read | r | | read_names
type | at | | text
which | a | all | text
command | vV | | text
test | | | condition
[ | | | condition
[[ | | | conditions
time | | | runs
nice | | | runs
timeout | | | runs
xargs | | | xargs
ls | aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1w:I: | all almost-all color? classify? directory full-time group-directories-first help human-readable ignore= inode numeric-uid-gid recursive reverse size sort= time= time-style= version | text+
tree | adfhiLpsugDFCnI:P:L: | dirsfirst noreport gitignore prune | text+
cat | AbeEnstTuv | number number-nonblank show-all show-ends show-tabs squeeze-blank help version | read+
head | qvzn:c:# | lines= bytes= quiet verbose help version | read+
tail | qvzfFn:c:# | lines= bytes= quiet verbose follow? help version | read+
wc | cmlLw | bytes chars lines words max-line-length help version | read+
nl | b:w:s:n:v:i: | | read+
tac | | | read+
rev | | | read+
cut | d:f:c:b:sz | delimiter= fields= characters= bytes= complement only-delimited output-delimiter= | read+
paste | d:sz | | read+
join | 1:2:t:a:v:j:io:e: | | read+
fold | bsw: | | read+
fmt | w: | | read+
column | ts:o:c:nx | table | read+
expand | t:i | | read+
unexpand | at: | | read+
tr | dscCt | delete squeeze-repeats complement | text+
sort | nrufbdghiMRVsczk:t: | numeric-sort reverse unique key= field-separator= human-numeric-sort version-sort ignore-case stable check zero-terminated | read
uniq | cdDuiz f:s:w: | count repeated unique ignore-case skip-fields= | read_one
comm | 123z | total check-order nocheck-order | read+
cmp | blsn:i: | | read+
diff | abBcdeEilnNpqrstTuwyU:C:W:I:x: | brief unified? context? recursive ignore-all-space ignore-space-change ignore-blank-lines ignore-case side-by-side color? new-file report-identical-files exclude= suppress-common-lines strip-trailing-cr text stat | read+
grep | EFGPabcHhiILlnoqRrsTUvVwxyzZA:B:C:e:f@m:# | extended-regexp fixed-strings perl-regexp basic-regexp count color? colour? ignore-case invert-match word-regexp line-regexp line-number files-with-matches files-without-match max-count= only-matching quiet silent no-messages with-filename no-filename null recursive dereference-recursive include= exclude= exclude-dir= after-context= before-context= context= regexp= file@ binary-files= help version | pattern+
egrep | EFGPabcHhiILlnoqRrsvwxA:B:C:e:m:# | color? include= exclude= exclude-dir= | pattern+
fgrep | EFGPabcHhiILlnoqRrsvwxA:B:C:e:m:# | color? include= exclude= exclude-dir= | pattern+
rg | aceE:FhHiIlLnNopPqsSuUvVwxg:t:T:A:B:C:M:m:r:j:f@d: | count count-matches color= colors= context= after-context= before-context= files files-with-matches files-without-match fixed-strings glob= iglob= heading no-heading hidden ignore-case smart-case case-sensitive invert-match json line-number no-line-number max-count= max-depth= max-columns= multiline multiline-dotall no-ignore no-ignore-vcs only-matching pcre2 quiet replace= sort= stats trim type= type-not= type-list vimgrep word-regexp line-regexp with-filename no-filename regexp= null passthru no-messages text version help | pattern
fd | HIsigapL0E:e:t:d:S: | hidden no-ignore type= extension= exclude= max-depth= glob ignore-case full-path absolute-path size= changed-within= print0 | text
find | | | find
sed | | | sed
awk | | | awk
gawk | | | awk
mawk | | | awk
jq | rRcsnSjeaCM | raw-output raw-input compact-output slurp null-input sort-keys exit-status tab indent= color-output monochrome-output | jq
stat | Lfc:t | dereference format= printf= terse file-system | text+
file | bikLnNrs0 | brief mime mime-type mime-encoding dereference | text
du | abchHkLmsSxd:t: | all human-readable max-depth= summarize total apparent-size bytes exclude= si | text+
df | ahHiklmPTt:x: | human-readable inodes total type= | text+
realpath | emsLPqz | relative-to= relative-base= no-symlinks | text+
readlink | femnqsvz | canonicalize canonicalize-existing canonicalize-missing no-newline | text+
basename | as:z | suffix= multiple | text+
dirname | z | zero | text+
md5sum | bctz | check quiet status | read+
sha1sum | bctz | check quiet status | read+
sha256sum | bctz | check quiet status | read+
sha512sum | bctz | check quiet status | read+
cksum | | | read+
b2sum | bctz | | read+
shasum | a:bct | | read+
od | abcdfhilosxA:j:N:t:w?v | | read+
hexdump | bcCdovxn:s:e: | canonical | read+
hd | n:s:v | | read+
xxd | rp | | read_one
strings | an:eft:o | bytes= | read+
base64 | diw: | decode ignore-garbage wrap= | read+
seq | ws:f: | equal-width separator= | text
zcat | f | | read+
date | uRd:I? | utc iso-8601? rfc-3339= date= rfc-email | date
cal | 13my | | number
uname | asnrvmpio | all kernel-name kernel-release machine | none
arch | | | none
nproc | | all | none
whoami | | | none
id | ugGnr | user group groups name | text
groups | | | text
hostname | fsiId | | none
tty | | | none
locale | a | all-locales | none
uptime | ps | pretty since | none
free | bkmghtlws: | human mega giga total wide | none
ps | | | processes
pgrep | flaxu:cnov | full list-name list-full exact count newest oldest | text
lscpu | | | none
lsblk | afo:l | | none
getconf | | | text
nvidia-smi | | | none
ss | tulnpas | | none
tar | | | archive
unzip | lvZ | | listing
zipinfo | 1lmstvz | | read_one
mkdir | pv | parents verbose | write | destructive-shell
touch | acm | no-create | write | destructive-shell
rmdir | pv | parents verbose | write | destructive-shell
rm | fivI | force interactive? verbose | remove | destructive-shell
cp | pvnfiuT | no-clobber force verbose preserve? update? | copy | destructive-shell
mv | vnfiuT | no-clobber force verbose | move | destructive-shell
chmod | vcf | verbose changes | mode | destructive-shell
tee | ai | append | write | in-place-edit
python | V | version | version
python3 | V | version | version
node | v | version | version
gcc | | version dumpversion | version
g++ | | version | version
clang | | version | version
cmake | | version | version
docker | v | version | version
java | | version | version
ruby | v | version | version
perl | v | version | version
bash | | version | version
curl | V | version | version
ssh | V | | version
psql | V | version | version
docker ps | aqnls f: | all quiet no-trunc filter= format= last= size latest | none
docker images | aq f: | all quiet no-trunc filter= format= digests | text
docker logs | ftn: | follow timestamps tail= since= until= details | text
docker version | | format= | none
gh pr list | s:L:A:l:B:S: | state= limit= author= label= base= search= json= jq= draft | none
gh pr view | c | comments json= | text
gh pr diff | | name-only patch color= | text
gh pr checks | | required json= | text
gh pr status | | json= | none
gh issue list | s:L:A:l:S: | state= limit= author= label= search= json= | none
gh issue view | c | comments json= | text
gh run list | L:w:b:s: | limit= workflow= branch= status= json= | none
gh run view | v | log log-failed verbose json= | text
git status | sbvzu? | short branch porcelain? long show-stash untracked-files? ignored? ahead-behind no-ahead-behind verbose | git_paths
git diff | puUbwzRaMsC#U: | cached staged stat? numstat shortstat summary name-only name-status color? no-color word-diff? unified= ignore-all-space ignore-space-change ignore-blank-lines no-ext-diff no-textconv check diff-filter= relative? exit-code quiet minimal patience histogram diff-algorithm= no-renames find-renames? merge-base patch patch-with-stat raw no-patch function-context inter-hunk-context= color-words? compact-summary dirstat? text binary full-index no-prefix | git_paths
git log | pnsguUbwzMCiEFPmcn:#S:G:L:U: | oneline graph all decorate? stat? shortstat numstat name-only name-status patch no-patch format= pretty? abbrev-commit no-abbrev-commit max-count= skip= since= until= after= before= author= committer= grep= no-merges merges first-parent reverse date= follow branches? tags? remotes? color? no-color no-decorate topo-order date-order author-date-order left-right cherry-pick cherry-mark cherry ancestry-path simplify-by-decoration invert-grep all-match regexp-ignore-case word-diff? unified= diff-filter= find-renames? no-ext-diff no-textconv source boundary full-history relative-date no-renames raw summary cc no-color-moved show-pulls | git_paths
git show | psqbwzMmcU: | stat? shortstat numstat name-only name-status patch no-patch format= pretty? oneline abbrev-commit color? no-color unified= date= word-diff? no-ext-diff no-textconv quiet summary raw diff-filter= first-parent ignore-all-space | git_paths
git branch | arvlqi | all remotes verbose list contains? no-contains? merged? no-merged? show-current sort= format= color? no-color column? points-at= ignore-case | git_branch
git tag | lin? | list contains? merged? points-at= sort= format= column? ignore-case | git_list
git remote | v | verbose | none
git remote get-url | | all push | text
git rev-parse | q | short? abbrev-ref? verify quiet show-toplevel git-dir is-inside-work-tree is-bare-repository show-prefix show-cdup symbolic symbolic-full-name absolute-git-dir git-common-dir show-superproject-working-tree all branches tags | git_names
git rev-list | n:# | count all max-count= since= until= left-right first-parent no-merges merges reverse oneline objects parents skip= author= grep= | git_names
git merge-base | a | all is-ancestor fork-point octopus | git_names
git name-rev | | name-only tags always refs= | git_names
git describe | | tags always all long dirty? abbrev= match= exclude= contains exact-match candidates= first-parent | git_names
git ls-files | cdmoksuztvx:f | cached deleted modified others ignored stage unmerged exclude= exclude-standard error-unmatch full-name directory eol deduplicate | git_paths
git ls-tree | rdtlz | name-only name-status long full-name full-tree | git_paths
git cat-file | tspe | | git_paths
git show-ref | dqs | heads tags head verify quiet hash? dereference | git_names
git for-each-ref | | sort= format= count= contains? merged? points-at= | text
git count-objects | vH | verbose human-readable | none
git shortlog | nsec | numbered summary email since= until= no-merges all group= format= | git_names
git blame | bCeflLMnpstwL: | show-email porcelain line-porcelain date= since= color-lines root | git_paths
git grep | EFGPIacHhilLnopqvwWzA:B:C:e:m:# | count ignore-case line-number files-with-matches files-without-match fixed-strings extended-regexp perl-regexp word-regexp all-match and or not cached untracked heading break color? show-function max-depth= name-only only-matching quiet | git_paths
git reflog | n:# | date= all oneline no-abbrev-commit max-count= format= pretty? | git_reflog
git stash list | n:# | date= oneline stat? format= pretty? | none
git stash show | pu | stat? patch name-only name-status include-untracked no-ext-diff no-textconv | git_names
git config | l | get local list name-only show-origin | git_config
git check-ignore | vqn | verbose quiet non-matching | git_paths
git check-attr | a | all | git_paths
git whatchanged | n:p# | oneline stat? since= | git_paths
git version | | build-options | none
git help | | | none
git add | AnuvN | all update dry-run verbose intent-to-add no-all | git_paths | git-mutation
git commit | avqsm:F@C: | all message= verbose quiet signoff amend no-edit allow-empty allow-empty-message file@ dry-run short reuse-message= author= date= | git_paths | git-mutation
git stash | uqkam: | include-untracked quiet keep-index message= | none | git-mutation
git stash push | uqkam: | include-untracked quiet keep-index message= staged | git_paths | git-mutation
git stash pop | q | index quiet | git_names | git-mutation
git stash apply | q | index quiet | git_names | git-mutation
git switch | qc:t | create= quiet track? no-track detach guess | git_names | git-mutation
git checkout | qb:t | quiet track? no-track | git_checkout | git-mutation
git restore --staged | qS | staged quiet | git_paths | git-mutation
git merge | nqvm: | no-ff ff ff-only no-edit quiet verbose squash no-commit abort message= stat no-stat | git_names | git-mutation
git cherry-pick | nx | no-commit abort | git_names | git-mutation
git revert | n | no-edit no-commit abort | git_names | git-mutation
git rebase | q | abort quiet | git_names | git-mutation
git mv | vnk | verbose dry-run | move | git-mutation
git rm --cached | qn | cached quiet dry-run | git_paths | git-mutation
git init | q | quiet | none | git-mutation
git clean -n | nd | dry-run | none
git worktree list | v | porcelain verbose | none
"""
_LETTER = re.compile(r"(\S)([:@?]?)")


@frozen
class Row:
    """What of one program, or verb, passes."""

    letters: Mapping[str, str]
    """Each short option to `:`, `@`, `?` or nothing."""
    names: Mapping[str, str]
    """Each long option to `=`, `@`, `?` or nothing."""
    operands: str
    wide: bool
    """Whether words that are known only when it runs may turn into options: none of them could do harm."""
    changes: str
    """The kind of change that it makes; nothing if it only looks."""


@cache
def table() -> Mapping[tuple[str, ...], Row]:
    """Return the table by program and verb."""
    rows: dict[tuple[str, ...], Row] = {}
    for line in _ROWS.strip().splitlines():
        name, letters, names, operands, *changes = (part.strip() for part in line.split("|"))
        rows[tuple(name.split())] = Row(
            letters={found[1]: found[2] for found in _LETTER.finditer(letters)},
            names={one.rstrip("=@?"): one[len(one.rstrip("=@?")) :] for one in names.split()},
            operands=operands.removesuffix("+"),
            wide=operands.endswith("+"),
            changes="".join(changes),
        )
    return rows


def row_of(words: tuple[str, ...]) -> tuple[Row, int] | None:
    """Return the row of the longest program and verb that words begin with, and how many words those are; None if none."""
    for length in (3, 2, 1):
        if (row := table().get(words[:length])) is not None and len(words) >= length:
            return row, length
    return None
