"""More secrets in their surroundings: names of other languages, commands, files, hashes. As in `leaks`."""

from __future__ import annotations

import base64
import json

from tests.secrets.drawing import AT, BASE64URL, HEX, drawn, jwt, pem
from tests.secrets.leaks import GITHUB, WORD, Leak

LONG = drawn(32, seed="more")
SEED = "legal winner thank year wave sausage worth useful legal winner thank yellow"
HEX40 = drawn(40, HEX, "more")
B64 = base64.b64encode(WORD.encode() * 3).decode()
KEY, KEY_LINES = pem("EC ", 3)
ONE_LINE = KEY.replace("\n", "\\n")


def _leak(id: str, text: str, *secrets: str) -> Leak:
    return Leak(id, text, secrets)


SHORT_NAMES = (
    *(_leak(f"{name}-in-json", json.dumps({"user": "ann", name: WORD}), WORD) for name in ("pass", "pwd", "creds", "db_pass")),
    *(_leak(f"{name}-in-env", f"{name.upper()}={WORD}\nTZ=UTC", WORD) for name in ("pass", "pwd", "creds", "smtp_pwd")),
    *(
        _leak(f"{name}-drawn", json.dumps({name: LONG}), LONG)
        for name in ("access", "bearer", "session", "signature", "private", "creds", "userSession", "api_signature")
    ),
    *(
        _leak(f"{name}-in-yaml", f"auth:\n  {name}: {LONG}\n  user: x", LONG)
        for name in ("access", "bearer", "session", "private")
    ),
    *(_leak(f"{name}-digits", f"your {name}: 492817", "492817") for name in ("OTP", "pin", "PIN", "totp")),
    _leak("pin-number", json.dumps({"card": 1, "pin": 4711}), "4711"),
    _leak("password-number", json.dumps({"password": 12345678}), "12345678"),
    _leak("passcode-number", json.dumps({"wifi": {"passcode": 90817263}}), "90817263"),
)
LANGUAGES = {
    "german": "Passwort",
    "german-other": "kennwort",
    "french": "mot_de_passe",
    "french-words": "Mot de passe",
    "spanish": "contraseña",
    "spanish-ascii": "contrasena",
    "portuguese": "senha",
    "portuguese-words": "palavra-passe",
    "italian": "parola_chiave",
    "polish": "hasło",
    "polish-ascii": "haslo",
    "russian": "пароль",
    "russian-capital": "Пароль",
    "chinese": "密码",
    "chinese-traditional": "密碼",
    "japanese": "パスワード",
    "korean": "비밀번호",
    "dutch": "wachtwoord",
    "swedish": "lösenord",
    "danish": "adgangskode",
    "norwegian": "passord",
    "finnish": "salasana",
    "czech": "heslo",
    "hungarian": "jelszó",
    "turkish": "şifre",
    "greek": "κωδικός",
    "hebrew": "סיסמה",
    "vietnamese": "mật_khẩu",
}
FOREIGN = (
    *(_leak(f"{id}-in-json", json.dumps({name: WORD, "x": 1}, ensure_ascii=False), WORD) for id, name in LANGUAGES.items()),
    *(_leak(f"{id}-in-text", f"{name}: {WORD}", WORD) for id, name in LANGUAGES.items()),
    _leak("spanish-key", f'clave = "{WORD}"', WORD),
    _leak("italian-key", f"chiave={WORD}", WORD),
)
COMMANDS = (
    _leak("aws-configure", f"aws configure set aws_secret_access_key {drawn(40, seed='awsc')}", drawn(40, seed="awsc")),
    _leak("aws-configure-profile", f"$ aws configure set profile.x.aws_session_token {LONG} --profile p", LONG),
    _leak("openssl-passin", f"openssl rsa -in k.pem -passin pass:{WORD} -out o.pem", WORD),
    _leak("openssl-enc", f"openssl enc -aes-256-cbc -pass pass:{WORD} -in f", WORD),
    _leak("curl-quoted-user", f'curl --user "ann:{WORD}" https://x.example', WORD),
    _leak("wget", f"wget --user=ann --password={WORD} https://x.example/f", WORD),
    _leak("httpie", f"http -a ann:{WORD} GET x.example", WORD),
    _leak("mariadb", f"mariadb -u root -p{WORD} shop", WORD),
    _leak("mysqldump", f"mysqldump --user=root --password={WORD} shop > x.sql", WORD),
    _leak("podman-login", f"podman login -u ann -p {WORD} quay.io", WORD),
    _leak("helm-set", f"helm upgrade x ./c --set postgres.password={WORD} --set replicas=2", WORD),
    _leak("kubectl-literal", f"kubectl create secret generic db --from-literal=password={WORD}", WORD),
    _leak("kubectl-other-literal", f"kubectl create secret generic db --from-literal=dsn={WORD}", WORD),
    _leak("ldapsearch", f"ldapsearch -x -D cn=admin -w {WORD} -b dc=x", WORD),
    _leak("smbclient", f"smbclient //srv/share -U ann%{WORD}", WORD),
    _leak("chpasswd", f"echo 'root:{WORD}' | chpasswd", WORD),
    _leak("psql-env", f"PGPASSWORD={WORD} psql -h db", WORD),
    _leak("sql-user", f"CREATE USER ann IDENTIFIED BY '{WORD}';", WORD),
    _leak("sql-role", f"ALTER ROLE ann WITH PASSWORD '{WORD}';", WORD),
    _leak("setx", f"setx DB_PASSWORD {WORD}", WORD),
    _leak("fish", f"set -x API_SECRET {WORD}", WORD),
    _leak("powershell", f"New-User -Name ann -Password '{WORD}'", WORD),
    _leak("docker-build", f"docker build --build-arg NPM_TOKEN={LONG} .", LONG),
    _leak("terraform-var", f"terraform apply -var 'db_password={WORD}'", WORD),
    _leak("vault-put", f"vault kv put secret/db password={WORD}", WORD),
    _leak("heroku", f"heroku config:set SECRET_KEY={WORD} -a x", WORD),
    _leak("git-config", f"git config --global user.password {WORD}", WORD),
    _leak("jdbc-oracle", f"jdbc:oracle:thin:scott/{WORD}{AT}db:1521:x", WORD),
    _leak("odbc", f"Driver={{ODBC}};Server=db;Uid=ann;Pwd={WORD};", WORD),
    _leak("sqlcmd", f"sqlcmd -S db -U sa -P {WORD} -Q 'select 1'", WORD),
)
FILES = (
    _leak("pgpass", f"db.internal:5432:shop:ann:{WORD}\n", WORD),
    _leak("pgpass-any", f"# hosts\n*:*:*:postgres:{WORD}\n", WORD),
    _leak("my-cnf", f'[mysql]\nuser=root\npassword="{WORD}"\n', WORD),
    _leak("netrc-line", f"machine github.com login ann password {WORD}", WORD),
    _leak("dockerfile-env", f"FROM x\nENV DB_PASSWORD {WORD}\nENV TZ UTC", WORD),
    _leak("dockerfile-arg", f"ARG API_TOKEN={LONG}", LONG),
    _leak("systemd", f'[Service]\nEnvironment="DB_PASSWORD={WORD}" TZ=UTC', WORD),
    _leak("tfvars", f'db_password = "{WORD}"\nregion = "eu"', WORD),
    _leak("github-actions", f"      env:\n        DB_PASSWORD: {WORD}\n", WORD),
    _leak("csv", f"user,password,role\nann,{WORD},admin\nbob,x{WORD}y,user\n", WORD, f"x{WORD}y"),
    _leak("csv-semicolons", f"name;api_key;note\nann;{LONG};none", LONG),
    _leak("tsv", f"id\tsecret\n1\t{WORD}\n2\tother{WORD}", WORD),
    _leak("table", f"| user | password |\n|---|---|\n| ann | {WORD} |", WORD),
    _leak("k8s-secret", f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  dsn: {B64}\n", B64),
    _leak("k8s-secret-kind-last", f"data:\n  x.yaml: {B64}\nkind: Secret\n", B64),
    _leak("k8s-string-data", f"kind: Secret\nstringData:\n  dsn: {WORD}\n", WORD),
    _leak("ansible-vault", f"$ANSIBLE_VAULT;1.1;AES256\n{drawn(80, HEX)}\n{drawn(60, HEX)}\n", drawn(80, HEX), drawn(60, HEX)),
    _leak("xml-element", f"<dbPassword>{WORD}</dbPassword>", WORD),
    _leak("xml-attribute", f'<db user="ann" password="{WORD}"/>', WORD),
    _leak("xml-entry", f'<entry key="password">{WORD}</entry>', WORD),
    _leak("yaml-block", f"password: |\n  {WORD}\nuser: x", WORD),
    _leak("url-encoded", f"body=user%3Dann%26password%3D{WORD}%26x%3D1", WORD),
    _leak("url-encoded-json", f"%7B%22password%22%3A%22{WORD}%22%7D", WORD),
    _leak("html-json", f"{{&quot;password&quot;:&quot;{WORD}&quot;}}", WORD),
    _leak("html-input-value", f'<input name="password" type="password" value="{WORD}">', WORD),
    _leak("python-bytes", f"password=b'{WORD}'", WORD),
    _leak("json-in-json-in-json", json.dumps({"a": json.dumps({"b": json.dumps({"pwd": WORD})})}), WORD),
    _leak("key-on-one-line", f'TLS_KEY="{ONE_LINE}"', *KEY_LINES),
    _leak("seed-is", f"the seed phrase is {SEED}", "wave sausage"),
    _leak("terraformrc", f'credentials "app.terraform.io" {{\n  token = "{drawn(14)}.atlasv1.{drawn(67)}"\n}}', drawn(67)),
)
HASHES = (
    _leak("bcrypt", f"hash: $2b$12${drawn(53)}", drawn(53)),
    _leak("htpasswd-file", f"ann:$apr1${drawn(8)}${drawn(22)}", drawn(22)),
    _leak("argon2", f"$argon2id$v=19$m=65536,t=3,p=4${drawn(22)}${drawn(43)}", drawn(43)),
    _leak("shadow", f"root:$6$rounds=5000${drawn(16)}${drawn(86)}:19000:0:99999:7:::", drawn(86)),
    _leak("shadow-yescrypt", f"ann:$y$j9T${drawn(22)}${drawn(43)}:19000:0:99999:7:::", drawn(43)),
    _leak("django", f"pbkdf2_sha256$600000${drawn(22)}${drawn(43)}=", drawn(43)),
    _leak("werkzeug", f"scrypt:32768:8:1${drawn(16)}${drawn(128, HEX)}", drawn(128, HEX)),
    _leak("ldap-hash", f"userPassword: {{SSHA}}{drawn(32)}", drawn(32)),
)
TOKENS = (
    _leak("discord", f"client.run('M{drawn(23, BASE64URL)}.{drawn(6)}.{drawn(27, BASE64URL)}')", drawn(27, BASE64URL)),
    _leak("notion", f"NOTION=ntn_{drawn(11, '0123456789')}{drawn(35)}", drawn(35)),
    _leak("notion-old", f"notion: secret_{drawn(43)}", drawn(43)),
    _leak("doppler", f"doppler run --token dp.pt.{drawn(43)}", drawn(43)),
    _leak("vercel", f"VERCEL_TOKEN={drawn(24)}", drawn(24)),
    _leak("vercel-own-look", f"using vcp_{drawn(56)}", drawn(56)),
    _leak("planetscale", f"pscale_tkn_{drawn(43)}", drawn(43)),
    _leak("planetscale-password", f"mysql://u:pscale_pw_{drawn(43)}{AT}host/db", drawn(43)),
    _leak("terraform", f"TF={drawn(14)}.atlasv1.{drawn(67)}", drawn(67)),
    _leak("rubygems", f"rubygems_{drawn(48, HEX)}", drawn(48, HEX)),
    _leak("pulumi", f"pul-{HEX40}", HEX40),
    _leak("linear", f"lin_api_{drawn(40)}", drawn(40)),
    _leak("mailchimp", f"{drawn(32, HEX)}-us12", drawn(32, HEX)),
    _leak("bearer-in-python", f"headers={{'Authorization': 'Bearer {LONG}'}}", LONG),
    _leak("bearer-in-headers-list", json.dumps([["Authorization", f"Bearer {LONG}"]]), LONG),
    _leak("cookie-in-python", f"cookies={{'session': '{LONG}'}}", LONG),
    _leak("proxy-authorization", f"Proxy-Authorization: Basic {drawn(24)}", drawn(24)),
    _leak("jwt-in-cookie", f"Cookie: jwt={jwt()}", jwt().split(".")[2]),
    _leak("pw-of-digits", "pw = 123456", "123456"),
    _leak("admin-pw-of-digits", "adminpw: 48213", "48213"),
    _leak("password-with-umlaut", "pass=pässwört9", "pässwört9"),
    _leak("password-of-digits-and-a-letter", "pass=12345a", "12345a"),
    _leak("pin-of-a-letter-and-digits", "pin := a12345", "a12345"),
    _leak("id-token", "idtoken: abcdef12345", "abcdef12345"),
    _leak("github-in-url-encoded", f"https%3A%2F%2F{GITHUB}%40github.com", GITHUB),
)
MORE_LEAKS = (*SHORT_NAMES, *FOREIGN, *COMMANDS, *FILES, *HASHES, *TOKENS)
